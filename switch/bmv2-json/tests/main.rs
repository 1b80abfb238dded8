//! The model from outside, as programs of this repository use it: compiled once for them and for these tests.

mod programs;
mod values;
