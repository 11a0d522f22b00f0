#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_wire::fuzzing::fuzz_wire(bytes));
