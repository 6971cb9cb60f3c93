//! warptap
fn main() {}
