#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lathe_mcp::fuzzing::fuzz_mcp_config(bytes));
