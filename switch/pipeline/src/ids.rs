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
    /// A table.
    TableId,
    /// An action.
    ActionId,
    /// An action profile, with or without selector.
    ProfileId,
    /// A counter array.
    CounterId,
    /// A meter array.
    MeterId,
    /// A register array.
    RegisterId,
    /// An array of filters.
    FilterId,
    /// A hash that can be set at run time.
    HashId,
    /// A parser value set.
    ValueSetId,
    /// An entry of a table, until it is deleted.
    EntryId,
}

/// A learn list: the fields of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DigestId(pub(crate) u32);
