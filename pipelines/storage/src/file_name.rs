//! The file name of a component: `<kind>_<type>_<name>_<signal>`, the same as the Collector's `file_storage`.

use component::storage::Namespace;

/// Longest file name, in bytes: the limit of file systems minus space for added suffixes.
const NAME_BYTES_MAX: usize = 255 - 16;

/// Returns the file name of a namespace. It is unique: characters that are not allowed, and `~`, are written
/// `~XXXX`.
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

/// Returns a hash that is stable across releases, so that files are found again.
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
    fn names_are_the_collectors_with_unsafe_characters_escaped() {
        check("otlp_grpc", "traces", "exporter_otlp_grpc__traces");
        check("otlp/eu-1", "logs", "exporter_otlp_eu-1_logs");
        check("otlp/a/b", "logs", "exporter_otlp_a~002Fb_logs");
        check("otlp/../x", "logs", "exporter_otlp_..~002Fx_logs");
        check("otlp/é", "~", "exporter_otlp_~00E9_~007E");
    }

    #[test]
    fn long_names_are_shortened_and_stay_unique() {
        let of = |end: &str| {
            let id = ComponentId::parse(&format!("otlp/{}{end}", "n".repeat(400))).unwrap();
            file_name(&Namespace { kind: "exporter", id, name: "logs".to_owned() })
        };
        assert_eq!(of("a").len(), NAME_BYTES_MAX);
        assert_ne!(of("a"), of("b"));
    }
}
