#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_teleport::fuzzing::fuzz_archive(bytes));
