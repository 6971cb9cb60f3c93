//! Arbitrary profiles.

use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Line, Link, Location, Mapping, Profile, ProfilesData, ProfilesDictionary,
    ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
};

use super::{Entropy, any_value, resource, scope};
use crate::{Data, Payload};

pub(super) fn data(e: &mut Entropy<'_>) -> Data {
    Data::Profiles(Payload::new(ProfilesData {
        resource_profiles: e.list(resource_profiles),
        dictionary: e.maybe(dictionary),
    }))
}

fn resource_profiles(e: &mut Entropy<'_>) -> ResourceProfiles {
    ResourceProfiles {
        resource: e.maybe(resource),
        scope_profiles: e.list(scope_profiles),
        schema_url: e.text(),
    }
}

fn scope_profiles(e: &mut Entropy<'_>) -> ScopeProfiles {
    ScopeProfiles { scope: e.maybe(scope), profiles: e.list(profile), schema_url: e.text() }
}

fn profile(e: &mut Entropy<'_>) -> Profile {
    Profile {
        sample_type: e.maybe(value_type),
        samples: e.list(sample),
        time_unix_nano: e.u64(),
        duration_nano: e.u64(),
        period_type: e.maybe(value_type),
        period: e.u64() as i64,
        profile_id: e.id::<16>(),
        dropped_attributes_count: e.u32(),
        original_payload_format: e.text(),
        original_payload: e.text().into_bytes(),
        attribute_indices: e.list(Entropy::i32),
    }
}

fn value_type(e: &mut Entropy<'_>) -> ValueType {
    ValueType { type_strindex: e.i32(), unit_strindex: e.i32() }
}

fn sample(e: &mut Entropy<'_>) -> Sample {
    Sample {
        stack_index: e.i32(),
        attribute_indices: e.list(Entropy::i32),
        link_index: e.i32(),
        values: e.list(|e| e.u64() as i64),
        timestamps_unix_nano: e.list(Entropy::u64),
    }
}

fn dictionary(e: &mut Entropy<'_>) -> ProfilesDictionary {
    ProfilesDictionary {
        mapping_table: e.list(|e| Mapping {
            memory_start: e.u64(),
            memory_limit: e.u64(),
            file_offset: e.u64(),
            filename_strindex: e.i32(),
            attribute_indices: e.list(Entropy::i32),
        }),
        location_table: e.list(|e| Location {
            mapping_index: e.i32(),
            address: e.u64(),
            lines: e.list(line),
            attribute_indices: e.list(Entropy::i32),
        }),
        function_table: e.list(|e| Function {
            name_strindex: e.i32(),
            system_name_strindex: e.i32(),
            filename_strindex: e.i32(),
            start_line: e.u64() as i64,
        }),
        link_table: e.list(|e| Link { trace_id: e.id::<16>(), span_id: e.id::<8>() }),
        string_table: e.list(Entropy::text),
        attribute_table: e.list(|e| KeyValueAndUnit {
            key_strindex: e.i32(),
            value: e.maybe(any_value),
            unit_strindex: e.i32(),
        }),
        stack_table: e.list(|e| Stack { location_indices: e.list(Entropy::i32) }),
    }
}

fn line(e: &mut Entropy<'_>) -> Line {
    Line { function_index: e.i32(), line: e.u64() as i64, column: e.u64() as i64 }
}
