//! The scripts that come with the player, inside it: `@NAME` on its command line.

/// Name and text, sorted by name.
pub static SCRIPTS: &[(&str, &str)] = &[
];

/// The built-in script of this name.
pub fn find(name: &str) -> Option<&'static str> {
    SCRIPTS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}
