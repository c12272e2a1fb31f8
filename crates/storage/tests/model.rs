//! tmp
mod world;
