#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_server::fuzzing::fuzz_messages(bytes));
