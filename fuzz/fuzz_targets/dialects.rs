#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_model::fuzzing::fuzz_dialects(bytes));
