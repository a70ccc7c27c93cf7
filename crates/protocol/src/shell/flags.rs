//! Bit sets.

macro_rules! flags {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $flag:ident = $value:expr;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$doc])* pub const $flag: Self = Self($value);)*

            /// Returns true if all of `other` are set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Returns the flags together with `other` when `condition` holds.
            #[must_use]
            pub const fn with(self, other: Self, condition: bool) -> Self {
                if condition { Self(self.0 | other.0) } else { self }
            }
        }

        impl BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }
    };
}

pub(super) use flags;
