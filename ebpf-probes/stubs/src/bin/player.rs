//! player
fn main() {}
