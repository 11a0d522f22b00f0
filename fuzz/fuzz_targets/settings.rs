#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_settings::fuzzing::fuzz_settings(bytes));
