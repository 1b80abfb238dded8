//! The per-port traffic manager: queues, scheduler, serialiser, deflect-on-drop. Without I/O or clock.
