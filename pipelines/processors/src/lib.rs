//! processors
