//! The capabilities that components use (capabilities(7)).

use component::ComponentId;
use rustix::io;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set, set_capabilities,
};

use crate::config::ComponentKind;

/// A capability that is kept.
pub struct Capability {
    /// The capability.
    pub set: CapabilitySet,
    /// Its name.
    pub name: &'static str,
    /// The types of the components that use it; empty if it is kept in any case.
    pub components: &'static [(ComponentKind, &'static str)],
    /// What it is used for.
    pub purpose: &'static str,
}

const GPU: (ComponentKind, &str) = (ComponentKind::Receiver, "gpu");
const NVML: (ComponentKind, &str) = (ComponentKind::Receiver, "nvml");
const AMDSMI: (ComponentKind, &str) = (ComponentKind::Receiver, "amdsmi");

/// The capabilities that are kept if they are there.
pub const CAPABILITIES: [Capability; 8] = [
    Capability {
        set: CapabilitySet::BPF,
        name: "CAP_BPF",
        components: &[GPU],
        purpose: "loads kernel programs",
    },
    Capability {
        set: CapabilitySet::CHECKPOINT_RESTORE,
        name: "CAP_CHECKPOINT_RESTORE",
        components: &[GPU],
        purpose: "opens libraries that were removed since a process mapped them",
    },
    Capability {
        set: CapabilitySet::DAC_OVERRIDE,
        name: "CAP_DAC_OVERRIDE",
        components: &[(ComponentKind::Exporter, "file"), (ComponentKind::Extension, "file_storage")],
        purpose: "writes files in directories of other users",
    },
    Capability {
        set: CapabilitySet::DAC_READ_SEARCH,
        name: "CAP_DAC_READ_SEARCH",
        components: &[],
        purpose: "reads libraries, configuration and keys in directories of other users",
    },
    Capability {
        set: CapabilitySet::IPC_LOCK,
        name: "CAP_IPC_LOCK",
        components: &[GPU],
        purpose: "maps the buffers in which the kernel reports mappings",
    },
    Capability {
        set: CapabilitySet::NET_BIND_SERVICE,
        name: "CAP_NET_BIND_SERVICE",
        components: &[],
        purpose: "listens at ports below 1024",
    },
    Capability {
        set: CapabilitySet::PERFMON,
        name: "CAP_PERFMON",
        components: &[GPU],
        purpose: "attaches probes and follows mappings",
    },
    Capability {
        set: CapabilitySet::SYS_PTRACE,
        name: "CAP_SYS_PTRACE",
        components: &[AMDSMI, GPU, NVML],
        purpose: "reads mappings and environments of processes of other users",
    },
];

/// The capabilities for which the kernel accepts `CAP_SYS_ADMIN` instead (bpf_capable, perfmon_capable).
const INCLUDED: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::PERFMON);

/// Returns the capabilities that these components use.
pub(super) fn used(components: &[(ComponentKind, ComponentId)]) -> CapabilitySet {
    let is_there =
        |wanted: &&(ComponentKind, &str)| components.iter().any(|(kind, id)| (*kind, id.kind()) == **wanted);
    let is_used = |c: &&Capability| c.components.is_empty() || c.components.iter().any(|w| is_there(&w));
    CAPABILITIES.iter().filter(is_used).fold(CapabilitySet::empty(), |all, c| all | c.set)
}

/// What is left of the capabilities.
#[derive(Default)]
pub(super) struct Kept {
    pub names: Vec<&'static str>,
    pub dropped: u32,
}

/// Drops all capabilities of this thread but those that are used, and those that programs it executes could get.
pub(super) fn drop_others(used: CapabilitySet) -> io::Result<Kept> {
    let before = capabilities(None)?;
    let kept = kept(before.permitted, used);
    bound(before, kept);
    let inheritable = before.inheritable & kept;
    set_capabilities(
        None,
        CapabilitySets { effective: before.effective & kept, permitted: kept, inheritable },
    )?;
    let dropped = (before.permitted & !kept).bits().count_ones();
    let named = CAPABILITIES.iter().filter(|c| kept.contains(c.set)).map(|c| c.name);
    let admin = kept.contains(CapabilitySet::SYS_ADMIN).then_some("CAP_SYS_ADMIN");
    Ok(Kept { names: named.chain(admin).collect(), dropped })
}

fn kept(permitted: CapabilitySet, used: CapabilitySet) -> CapabilitySet {
    let is_replaced = !permitted.contains(used & INCLUDED);
    let admin = if is_replaced { CapabilitySet::SYS_ADMIN } else { CapabilitySet::empty() };
    permitted & (used | admin)
}

/// Removes capabilities from what executed programs can get. That takes `CAP_SETPCAP`; without it, `no_new_privs` and the
/// permitted capabilities bound them.
fn bound(before: CapabilitySets, kept: CapabilitySet) {
    if before.effective.contains(CapabilitySet::SETPCAP) {
        let others = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
        for other in others.filter(|other| !kept.contains(*other)) {
            // The kernel refuses those that it does not know.
            let _ = remove_capability_from_bounding_set(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::components::FACTORIES;

    fn used_by(components: &[(ComponentKind, &str)]) -> CapabilitySet {
        let id = |(kind, id): &(ComponentKind, &str)| (*kind, ComponentId::parse(id).unwrap());
        used(&components.iter().map(id).collect::<Vec<_>>())
    }

    #[test]
    fn capabilities_are_those_of_the_configured_components() {
        let always = CapabilitySet::DAC_READ_SEARCH | CapabilitySet::NET_BIND_SERVICE;
        assert_eq!(used_by(&[(ComponentKind::Exporter, "gpu"), (ComponentKind::Receiver, "otlp")]), always);
        let files = used_by(&[(ComponentKind::Exporter, "file/a")]);
        assert_eq!(files, always | CapabilitySet::DAC_OVERRIDE);
        let gpu = used_by(&[(ComponentKind::Receiver, "gpu/b")]);
        assert!(gpu.contains(CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::SYS_PTRACE));
        assert!(!gpu.contains(CapabilitySet::DAC_OVERRIDE) && !gpu.contains(CapabilitySet::SYS_ADMIN));
    }

    #[test]
    fn every_component_of_the_table_exists() {
        let exists = |(kind, name): &(ComponentKind, &str)| match kind {
            ComponentKind::Exporter => FACTORIES.exporters.iter().any(|f| f.kind == *name),
            ComponentKind::Extension => FACTORIES.extensions.iter().any(|f| f.kind == *name),
            ComponentKind::Receiver => FACTORIES.receivers.iter().any(|f| f.kind == *name),
            ComponentKind::Connector | ComponentKind::Processor => false,
        };
        assert!(CAPABILITIES.iter().flat_map(|c| c.components).all(exists));
        assert!(CAPABILITIES.is_sorted_by_key(|c| c.name));
    }

    #[test]
    fn administration_is_kept_only_where_it_replaces_what_is_missing() {
        let (admin, bpf) = (CapabilitySet::SYS_ADMIN, CapabilitySet::BPF);
        assert_eq!(kept(CapabilitySet::all(), bpf), bpf);
        assert_eq!(kept(admin | CapabilitySet::CHOWN, bpf), admin);
        assert_eq!(kept(admin, CapabilitySet::SYS_PTRACE), CapabilitySet::empty());
    }
}
