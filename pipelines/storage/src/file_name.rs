//! The name of a component's file: `<kind>_<type>_<name>_<signal>`, as the Collector's `file_storage` has it.

use component::storage::Namespace;

/// The longest name of a file that file systems take, less room for the endings that are added to it.
const NAME_BYTES_MAX: usize = 255 - 16;

/// The file of a namespace. Two namespaces never share one: what a file name cannot hold is written `~XXXX`,
/// and so is `~` itself.
pub fn file_name(namespace: &Namespace) -> String {
    let parts = [namespace.kind, namespace.id.kind(), namespace.id.name(), &namespace.name];
    let mut name: String = parts.join("_").chars().map(escaped).collect();
    if name.len() > NAME_BYTES_MAX {
        let tag = format!("~{:016x}", fnv1a(name.as_bytes()));
        name.truncate(NAME_BYTES_MAX - tag.len());
        name.push_str(&tag);
    }
    name
}

fn escaped(c: char) -> String {
    match c {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '-' | '_' | '.' => c.to_string(),
        _ => format!("~{:04X}", u32::from(c)),
    }
}

/// A hash that stays the same from release to release: names must be found again.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use component::ComponentId;

    use super::*;

    fn check(id: &str, name: &str, want: &str) {
        let namespace =
            Namespace { kind: "exporter", id: ComponentId::parse(id).unwrap(), name: name.to_owned() };
        assert_eq!(file_name(&namespace), want);
    }

    #[test]
    fn names_are_the_collectors_and_unsafe_characters_are_written_out() {
        check("otlp_grpc", "traces", "exporter_otlp_grpc__traces");
        check("otlp/eu-1", "logs", "exporter_otlp_eu-1_logs");
        check("otlp/a/b", "logs", "exporter_otlp_a~002Fb_logs");
        check("otlp/../x", "logs", "exporter_otlp_..~002Fx_logs");
        check("otlp/é", "~", "exporter_otlp_~00E9_~007E");
    }

    #[test]
    fn a_name_too_long_for_a_file_is_cut_and_stays_its_own() {
        let of = |end: &str| {
            let id = ComponentId::parse(&format!("otlp/{}{end}", "n".repeat(400))).unwrap();
            file_name(&Namespace { kind: "exporter", id, name: "logs".to_owned() })
        };
        assert_eq!(of("a").len(), NAME_BYTES_MAX);
        assert_ne!(of("a"), of("b"));
    }
}
