#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_permissions::fuzzing::fuzz_rules(bytes));
