//! The keys under `kernels`: the GPU functions that processes launch.

config::section! {
    /// The GPU functions that processes launch.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct KernelsConfig {
        /// Largest number of functions of a process whose launches have a series with their name; all others share the
        /// name `_OTHER`. 0 counts launches without names.
        pub names_max: usize = crate::analyzer::Settings::default().kernel_names_max => in ..=1000,
    }
}
