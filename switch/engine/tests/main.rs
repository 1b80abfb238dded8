//! Networks of switches under a virtual clock. One executable: linking takes longer than most of the tests.

mod outside;
mod switches;

mod fabric;
mod faults;
mod garbage;
mod queueing;
mod simulation;
mod storm;
mod trace;
