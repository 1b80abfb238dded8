//! The tables of the chip, which are the same for every program: names, ids and fields.

use super::connectors;
use super::generator;
use super::rows::Spec;

pub const DEVICE: u32 = 0xff06_0001;
pub const PORT: u32 = 0xff01_0001;
pub const PORT_STAT: u32 = 0xff01_0002;
pub const MGID: u32 = 0xff02_0001;
pub const NODE: u32 = 0xff02_0002;
const ECMP: u32 = 0xff02_0003;
const LAG: u32 = 0xff02_0004;
const PRUNE: u32 = 0xff02_0005;
pub const PRE_PORT: u32 = 0xff02_0006;
pub const MIRROR: u32 = 0xff04_0001;

const TABLES: [Spec; 11] = [
    Spec {
        // In the full name, the generation of the chip stands before it.
        name: "dev.device_configuration",
        id: DEVICE,
        kind: "DevConfigure",
        size: 1,
        key: &[],
        data: &[
            (1, "sku", "string", false),
            (2, "num_pipes", "uint32", false),
            (3, "num_stages", "uint32", false),
            (4, "num_max_ports", "uint32", false),
            (5, "num_front_ports", "uint32", false),
            (6, "pcie_cpu_port", "uint32", false),
            (7, "eth_cpu_port_list", "uint32", true),
            (8, "internal_port_list", "uint32", true),
            (9, "external_port_list", "uint32", true),
            (10, "recirc_port_list", "uint32", true),
            (11, "intr_based_link_monitoring", "bool", false),
            (12, "flow_learn_intr_mode", "bool", false),
            (13, "lrt_dr_timeout_usec", "uint32", false),
            (14, "flow_learn_timeout_usec", "uint32", false),
            (15, "inactive_node_delete", "bool", false),
            (16, "selector_member_order", "bool", false),
        ],
        actions: &[],
    },
    Spec {
        name: "$PORT",
        id: PORT,
        kind: "PortConfigure",
        size: 512,
        key: &[(1, "$DEV_PORT", "uint32", false)],
        data: &[
            (1, "$SPEED", "string", false),
            (2, "$FEC", "string", false),
            (3, "$N_LANES", "uint32", false),
            (4, "$PORT_ENABLE", "bool", false),
            (5, "$AUTO_NEGOTIATION", "string", false),
            (6, "$LOOPBACK_MODE", "string", false),
            (7, "$TX_MTU", "uint32", false),
            (8, "$RX_MTU", "uint32", false),
            (14, "$PORT_DIR", "string", false),
            (21, "$IS_VALID", "bool", false),
            (22, "$IS_INTERNAL", "bool", false),
            (25, "$PORT_UP", "bool", false),
            (26, "$PORT_NAME", "string", false),
        ],
        actions: &[],
    },
    connectors::TABLE,
    Spec {
        name: "$PORT_STAT",
        id: PORT_STAT,
        kind: "PortStat",
        size: 256,
        key: &[(1, "$DEV_PORT", "uint32", false)],
        data: &[
            (1, "$FramesReceivedOK", "uint64", false),
            (5, "$OctetsReceivedinGoodFrames", "uint64", false),
            (33, "$FramesTransmittedOK", "uint64", false),
            (36, "$OctetsTransmittedwithouterror", "uint64", false),
        ],
        actions: &[],
    },
    Spec {
        name: "$pre.mgid",
        id: MGID,
        kind: "PreMgid",
        size: 65536,
        key: &[(1, "$MGID", "uint16", false)],
        data: &[
            (1, "$MULTICAST_NODE_ID", "uint32", true),
            (2, "$MULTICAST_NODE_L1_XID_VALID", "bool", true),
            (3, "$MULTICAST_NODE_L1_XID", "uint16", true),
            (4, "$MULTICAST_ECMP_ID", "uint32", true),
            (5, "$MULTICAST_ECMP_L1_XID_VALID", "bool", true),
            (6, "$MULTICAST_ECMP_L1_XID", "uint16", true),
        ],
        actions: &[],
    },
    Spec {
        name: "$pre.node",
        id: NODE,
        kind: "PreNode",
        size: 16_777_216,
        key: &[(1, "$MULTICAST_NODE_ID", "uint32", false)],
        data: &[
            (1, "$MULTICAST_RID", "uint16", false),
            (2, "$MULTICAST_LAG_ID", "uint8", true),
            (3, "$DEV_PORT", "uint32", true),
        ],
        actions: &[],
    },
    Spec {
        name: "$pre.ecmp",
        id: ECMP,
        kind: "PreEcmp",
        size: 16_777_216,
        key: &[(1, "$MULTICAST_ECMP_ID", "uint32", false)],
        data: &[(1, "$MULTICAST_NODE_ID", "uint32", true)],
        actions: &[],
    },
    Spec {
        name: "$pre.lag",
        id: LAG,
        kind: "PreLag",
        size: 255,
        key: &[(1, "$MULTICAST_LAG_ID", "uint8", false)],
        data: &[(1, "$DEV_PORT", "uint32", true)],
        actions: &[],
    },
    Spec {
        name: "$pre.prune",
        id: PRUNE,
        kind: "PrePrune",
        size: 288,
        key: &[(1, "$MULTICAST_L2_XID", "uint16", false)],
        data: &[(1, "$DEV_PORT", "uint32", true)],
        actions: &[],
    },
    Spec {
        name: "$pre.port",
        id: PRE_PORT,
        kind: "PrePort",
        size: 288,
        key: &[(1, "$DEV_PORT", "uint32", false)],
        data: &[
            (1, "$MULTICAST_BACKUP_PORT", "uint32", false),
            (2, "$MULTICAST_FORWARD_STATE", "bool", false),
            (3, "$MULTICAST_CLEAR_FAST_FAILOVER", "bool", false),
            (4, "$COPY_TO_CPU_PORT_ENABLE", "bool", false),
        ],
        actions: &[],
    },
    Spec {
        name: "$mirror.cfg",
        id: MIRROR,
        kind: "MirrorCfg",
        size: 1024,
        key: &[(1, "$sid", "uint16", false)],
        data: &[
            (5, "$session_enable", "bool", false),
            (6, "$direction", "string", false),
            (7, "$ucast_egress_port", "uint32", false),
            (8, "$ucast_egress_port_valid", "bool", false),
            (9, "$egress_port_queue", "uint32", false),
            (10, "$ingress_cos", "uint32", false),
            (11, "$packet_color", "string", false),
            (12, "$level1_mcast_hash", "uint32", false),
            (13, "$level2_mcast_hash", "uint32", false),
            (14, "$mcast_grp_a", "uint16", false),
            (15, "$mcast_grp_a_valid", "bool", false),
            (16, "$mcast_grp_b", "uint16", false),
            (17, "$mcast_grp_b_valid", "bool", false),
            (18, "$mcast_l1_xid", "uint16", false),
            (19, "$mcast_l2_xid", "uint16", false),
            (20, "$mcast_rid", "uint16", false),
            (21, "$icos_for_copy_to_cpu", "uint32", false),
            (22, "$copy_to_cpu", "bool", false),
            (23, "$max_pkt_len", "uint16", false),
        ],
        actions: &[(2, "$normal", &[])],
    },
];

/// All tables of a generation of the chip. `is_second`: Tofino 2.
pub fn tables(is_second: bool) -> impl Iterator<Item = &'static Spec> {
    TABLES.iter().chain(generator::tables(is_second))
}

/// The table with this id.
pub fn spec(table: u32, is_second: bool) -> Option<&'static Spec> {
    tables(is_second).find(|spec| spec.id == table)
}

/// Reason why a table has no rows. `None`: it may have some.
pub fn without_rows(table: u32) -> Option<&'static str> {
    match table {
        PORT_STAT => Some("there are no counts of ports here; gNMI has them"),
        ECMP => Some("there are no ECMP groups of nodes here"),
        LAG => Some("there are no LAGs here; nodes name their ports"),
        PRUNE => Some("exclusion by level 2 is fixed here: id n excludes port n"),
        _ => None,
    }
}

/// Whether a table is one of these.
pub fn has(table: u32) -> bool {
    spec(table, true).is_some()
}
