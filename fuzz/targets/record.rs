//! Ring records: any bytes are a record or an error.

#![no_main]

use event::decode::{Record, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let expected = match decode(bytes) {
        Ok(Record::Step(_)) => size_of::<event::StepRecord>(),
        Ok(Record::Call(_)) => size_of::<event::CallRecord>(),
        Ok(Record::Process(_)) => size_of::<probe_abi::record::ProcessRecord>(),
        Ok(Record::Context(_)) => size_of::<probe_abi::context::ContextRecord>(),
        // The length depends on the memory that was read.
        Ok(Record::CallArgs(args)) => {
            assert!(args.entry.len() + args.exit.len() <= bytes.len(), "no more memory than bytes");
            return;
        }
        Err(_) => return,
    };
    assert_eq!(bytes.len(), expected);
});
