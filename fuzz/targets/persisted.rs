//! Persisted records: any fields in a valid frame are a record or an error; a record is encoded to the same bytes and can be
//! restored.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl::FlightRecord;
use steps::BaselineRecord;

fuzz_target!(|fields: &[u8]| {
    if let Ok(record) = FlightRecord::decode(&nccl::record::FORMAT.seal(fields)) {
        assert_eq!(FlightRecord::decode(&record.encode()).as_ref(), Ok(&record));
        nccl::Engine::new(nccl::Settings::default()).restore(&record, &mut Vec::new());
    }
    if let Ok(record) = BaselineRecord::decode(&steps::record::FORMAT.seal(fields)) {
        assert_eq!(BaselineRecord::decode(&record.encode()).as_ref(), Ok(&record));
        steps::Engine::new(steps::Settings::default()).restore(&record);
    }
});
