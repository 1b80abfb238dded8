//! The v1model pipeline: parser, match-action, deparser and their control-plane state, without I/O or clock.
