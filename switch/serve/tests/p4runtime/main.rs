//! The services over gRPC, as their clients see them, of a switch that the engine simulates.

mod one_switch;
mod trace;
