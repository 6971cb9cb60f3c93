//! What live tests have in common: the real binary watching stub processes, and our own receiver that takes what it sends.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod agent;
pub mod binary;
pub mod inbox;
