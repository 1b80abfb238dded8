//! Handles of the program's objects. A name is looked up once; afterwards the handle is an index.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(crate) u32);

        impl $name {
            pub(crate) fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    TableId,
    ActionId,
    /// An action profile, with or without selector.
    ProfileId,
    CounterId,
    MeterId,
    RegisterId,
    ValueSetId,
    /// A learn list.
    DigestId,
    /// An entry of one table, until it is deleted.
    EntryId,
}
