//! `warptap check`: says whether this machine has what the gpu receiver needs: kernel, BTF, capabilities, libraries, processes, NVML.

/// Does the work of the command.
pub fn run() -> anyhow::Result<()> {
    anyhow::bail!("`check` is not built in yet")
}
