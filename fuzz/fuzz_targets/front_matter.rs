#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_extensions::fuzzing::fuzz_front_matter(bytes));
