//! Networks of switches under a virtual clock. One executable: linking takes longer than most of the tests.

mod classes;
mod full;
mod outside;
mod switches;
mod tofino;

mod advanced_flow_control;
mod codel;
mod export;
mod fabric;
mod faults;
mod flow_control;
mod garbage;
mod generator;
mod groups;
mod lossless;
mod pipes;
mod policing;
mod queueing;
mod ranks;
mod simulation;
mod storm;
mod trace;
mod volume_counters;
