//! The messages of profiles, row by row as in [`crate::json::tables`]. Their protocol is in development: they refer
//! to tables of a dictionary, and all ids are hex, as the Collector writes them.

use opentelemetry_proto::tonic::collector::profiles::v1development::{
    ExportProfilesPartialSuccess, ExportProfilesServiceResponse,
};
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Line, Link, Location, Mapping, Profile, ProfilesData, ProfilesDictionary,
    ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
};

use crate::json::Message;
use crate::json::kinds::{Base64, Hex, Int, Kind, List, Long, Maybe, Nested, Text};
use crate::json::reader::{JsonError, JsonReader};
use crate::json::tables::messages;
use crate::json::writer;

messages! {
    ProfilesData {
        "resourceProfiles": List<Nested> = resource_profiles,
        "dictionary": Maybe<Nested> = dictionary,
    }
    ResourceProfiles {
        "resource": Maybe<Nested> = resource,
        "scopeProfiles": List<Nested> = scope_profiles,
        "schemaUrl": Text = schema_url,
    }
    ScopeProfiles {
        "scope": Maybe<Nested> = scope,
        "profiles": List<Nested> = profiles,
        "schemaUrl": Text = schema_url,
    }
    Profile {
        "sampleType": Maybe<Nested> = sample_type,
        "samples": List<Nested> = samples,
        "timeUnixNano": Long = time_unix_nano,
        "durationNano": Long = duration_nano,
        "periodType": Maybe<Nested> = period_type,
        "period": Long = period,
        "profileId": Hex<16> = profile_id,
        "droppedAttributesCount": Int = dropped_attributes_count,
        "originalPayloadFormat": Text = original_payload_format,
        "originalPayload": Base64 = original_payload,
        "attributeIndices": List<Int> = attribute_indices,
    }
    Sample {
        "stackIndex": Int = stack_index,
        "attributeIndices": List<Int> = attribute_indices,
        "linkIndex": Int = link_index,
        "values": List<Long> = values,
        "timestampsUnixNano": List<Long> = timestamps_unix_nano,
    }
    ValueType {
        "typeStrindex": Int = type_strindex,
        "unitStrindex": Int = unit_strindex,
    }
    ProfilesDictionary {
        "mappingTable": List<Nested> = mapping_table,
        "locationTable": List<Nested> = location_table,
        "functionTable": List<Nested> = function_table,
        "linkTable": List<Nested> = link_table,
        "stringTable": List<Text> = string_table,
        "attributeTable": List<Nested> = attribute_table,
        "stackTable": List<Nested> = stack_table,
    }
    Mapping {
        "memoryStart": Long = memory_start,
        "memoryLimit": Long = memory_limit,
        "fileOffset": Long = file_offset,
        "filenameStrindex": Int = filename_strindex,
        "attributeIndices": List<Int> = attribute_indices,
    }
    Location {
        "mappingIndex": Int = mapping_index,
        "address": Long = address,
        "lines": List<Nested> = lines,
        "attributeIndices": List<Int> = attribute_indices,
    }
    Line {
        "functionIndex": Int = function_index,
        "line": Long = line,
        "column": Long = column,
    }
    Function {
        "nameStrindex": Int = name_strindex,
        "systemNameStrindex": Int = system_name_strindex,
        "filenameStrindex": Int = filename_strindex,
        "startLine": Long = start_line,
    }
    Link {
        "traceId": Hex<16> = trace_id,
        "spanId": Hex<8> = span_id,
    }
    KeyValueAndUnit {
        "keyStrindex": Int = key_strindex,
        "value": Maybe<Nested> = value,
        "unitStrindex": Int = unit_strindex,
    }
    Stack {
        "locationIndices": List<Int> = location_indices,
    }
    ExportProfilesServiceResponse {
        "partialSuccess": Maybe<Nested> = partial_success,
    }
    ExportProfilesPartialSuccess {
        "rejectedProfiles": Long = rejected_profiles,
        "errorMessage": Text = error_message,
    }
}
