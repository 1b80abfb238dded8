//! Flow sizes that were measured, as (bytes, share of flows not larger), straight between the points.
//! As the HKUST TrafficGenerator has them, from the figures of the papers.

/// Web search: DCTCP (SIGCOMM 2010), figure 4. Mean 1.71 MB.
pub const WEB_SEARCH: [(u64, f64); 12] = [
    (0, 0.0),
    (10_000, 0.15),
    (20_000, 0.2),
    (30_000, 0.3),
    (50_000, 0.4),
    (80_000, 0.53),
    (200_000, 0.6),
    (1_000_000, 0.7),
    (2_000_000, 0.8),
    (5_000_000, 0.9),
    (10_000_000, 0.97),
    (30_000_000, 1.0),
];

/// Data mining: VL2 (SIGCOMM 2009), figure 2. Mean 12.7 MB.
pub const DATA_MINING: [(u64, f64); 13] = [
    (0, 0.0),
    (180, 0.1),
    (216, 0.2),
    (560, 0.3),
    (900, 0.4),
    (1_100, 0.5),
    (1_870, 0.6),
    (3_160, 0.7),
    (10_000, 0.8),
    (400_000, 0.9),
    (3_160_000, 0.95),
    (100_000_000, 0.98),
    (1_000_000_000, 1.0),
];
