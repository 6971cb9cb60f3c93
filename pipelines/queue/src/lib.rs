//! Queue (being moved here).
