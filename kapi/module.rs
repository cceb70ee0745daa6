// SPDX-License-Identifier: GPL-2.0

//! Module references.
//!
//! C header: [`include/linux/module.h`](srctree/include/linux/module.h)

use super::bindings;
use core::marker::PhantomData;
use kernel::module::{this_module, ModuleMetadata};

/// A reference on the module `M` that keeps it from being unloaded.
///
/// # Invariants
///
/// One reference of `M`'s use count belongs to this value.
pub(crate) struct ModuleRef<M: ModuleMetadata>(PhantomData<fn() -> M>);

impl<M: ModuleMetadata> ModuleRef<M> {
    /// Takes a further reference on the module whose code runs.
    ///
    /// To be called from an operation that holds a reference already, such as one of an open
    /// block device with `owner` set: then the module cannot be on its way out.
    pub(crate) fn get() -> Self {
        // SAFETY: `THIS_MODULE` of `M` is valid while code of the module runs. `__module_get` is
        // an atomic increment, allowed in any context.
        unsafe { bindings::__module_get(this_module::<M>().as_ptr()) };
        // INVARIANT: The reference was taken just now.
        Self(PhantomData)
    }
}

impl<M: ModuleMetadata> Drop for ModuleRef<M> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant there is a reference to give back.
        unsafe { bindings::module_put(this_module::<M>().as_ptr()) };
    }
}
