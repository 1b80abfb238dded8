//! Hosts switches and the links between them and drives them under a clock.
