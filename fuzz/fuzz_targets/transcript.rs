#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_session::fuzzing::fuzz_transcript(bytes));
