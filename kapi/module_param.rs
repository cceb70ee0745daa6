// SPDX-License-Identifier: GPL-2.0

//! Module parameters that are readable in sysfs.
//!
//! The kernel crate's parameters have no `get` in 7.3, and so no file.
//!
//! C header: [`include/linux/moduleparam.h`](srctree/include/linux/moduleparam.h)

use super::bindings;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use kernel::{
    error::from_result,
    ffi,
    fmt::{self, Write as _},
    page::PAGE_SIZE,
    prelude::*,
};

/// A value that parameters can hold in a word.
pub(crate) trait ParamValue: Copy {
    /// Parses what was written; `None` if it is no such value.
    fn parse(text: &CStr) -> Option<Self>;
    /// As it is kept.
    fn to_word(self) -> i32;
    /// The inverse of [`ParamValue::to_word`].
    fn from_word(word: i32) -> Self;
    /// Writes it for a reader of the parameter's file.
    fn show(self, out: &mut dyn fmt::Write) -> fmt::Result;
}

impl ParamValue for i32 {
    fn parse(text: &CStr) -> Option<Self> {
        let mut value = 0;
        // SAFETY: `text` is NUL-terminated; the result goes to `value`.
        let ret = unsafe { bindings::kstrtoint(text.as_char_ptr(), 0, &mut value) };
        (ret == 0).then_some(value)
    }

    fn to_word(self) -> i32 {
        self
    }

    fn from_word(word: i32) -> Self {
        word
    }

    fn show(self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_fmt(fmt!("{self}"))
    }
}

/// A parameter: set by the loader before the module starts, read by anyone afterwards.
pub(crate) struct Param<T: ParamValue> {
    word: AtomicI32,
    given: AtomicBool,
    _p: core::marker::PhantomData<fn() -> T>,
}

impl<T: ParamValue> Param<T> {
    /// A parameter with a default, as [`ParamValue::to_word`] gives it.
    pub(crate) const fn new(default_word: i32) -> Self {
        Self {
            word: AtomicI32::new(default_word),
            given: AtomicBool::new(false),
            _p: core::marker::PhantomData,
        }
    }

    /// The value.
    pub(crate) fn get(&self) -> T {
        T::from_word(self.word.load(Ordering::Relaxed))
    }

    /// Changes what readers of the file see; for a value that was adjusted.
    pub(crate) fn set(&self, value: T) {
        self.word.store(value.to_word(), Ordering::Relaxed);
    }

    /// Whether the user gave it.
    pub(crate) fn is_given(&self) -> bool {
        self.given.load(Ordering::Relaxed)
    }

    /// The C operations.
    pub(crate) const OPS: bindings::kernel_param_ops = bindings::kernel_param_ops {
        flags: 0,
        set: Some(set_callback::<T>),
        get: Some(get_callback::<T>),
        free: None,
    };
}

/// # Safety
///
/// Called by the module loader for a parameter made by `module_params!` for a [`Param<T>`].
unsafe extern "C" fn set_callback<T: ParamValue>(
    text: *const ffi::c_char,
    param: *const bindings::kernel_param,
) -> ffi::c_int {
    from_result(|| {
        if text.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: The loader passes a NUL-terminated string, and the parameter's own argument.
        let (text, param) = unsafe {
            let param = (*param).__bindgen_anon_1.arg.cast::<Param<T>>();
            (CStr::from_char_ptr(text), &*param)
        };
        param.set(T::parse(text).ok_or(EINVAL)?);
        param.given.store(true, Ordering::Relaxed);
        Ok(0)
    })
}

/// # Safety
///
/// Called for a reader of the file of a parameter made by `module_params!` for a [`Param<T>`].
unsafe extern "C" fn get_callback<T: ParamValue>(
    page: *mut ffi::c_char,
    param: *const bindings::kernel_param,
) -> ffi::c_int {
    // SAFETY: The parameter's own argument, and a page to write to.
    let (param, page) = unsafe {
        let param = (*param).__bindgen_anon_1.arg.cast::<Param<T>>();
        (
            &*param,
            core::slice::from_raw_parts_mut(page.cast::<u8>(), PAGE_SIZE),
        )
    };
    from_result(|| {
        let mut out = kernel::str::Formatter::new(page);
        param.get().show(&mut out)?;
        out.write_str("\n")?;
        Ok(i32::try_from(out.bytes_written())?)
    })
}

/// A `struct kernel_param` in the section that the loader reads.
#[repr(transparent)]
pub(crate) struct KernelParam(pub(crate) bindings::kernel_param);

// SAFETY: Only the loader and sysfs use it, which lock for themselves.
unsafe impl Sync for KernelParam {}

/// Declares statics of type [`Param`] as parameters of the module, mode 0444, with their modinfo.
macro_rules! module_params {
    (module $module:ty; $(
        $(#[$attr:meta])*
        $vis:vis static $ident:ident: Param<$ty:ty> = $default:expr;
        $name:literal, $kind:literal, $desc:literal;
    )*) => {$(
        $(#[$attr])*
        $vis static $ident: $crate::kapi::module_param::Param<$ty> =
            $crate::kapi::module_param::Param::new($default);

        const _: () = {
            use $crate::kapi::{bindings, module_param::{KernelParam, Param}};
            static OPS: bindings::kernel_param_ops = Param::<$ty>::OPS;

            #[link_section = "__param"]
            #[used(compiler)]
            static PARAM: KernelParam = KernelParam(bindings::kernel_param {
                name: ::core::concat!($name, "\0").as_ptr().cast(),
                mod_: ::kernel::module::this_module::<$module>().as_ptr(),
                ops: &raw const OPS,
                perm: 0o444,
                level: -1,
                flags: 0,
                __bindgen_anon_1: bindings::kernel_param__bindgen_ty_1 {
                    arg: (&raw const $ident).cast_mut().cast(),
                },
            });

            const TYPE: &str = ::core::concat!("parmtype=", $name, ":", $kind, "\0");
            const DESC: &str = ::core::concat!("parm=", $name, ":", $desc, "\0");

            #[link_section = ".modinfo"]
            #[used(compiler)]
            static MODINFO_TYPE: [u8; TYPE.len()] = $crate::kapi::module_param::bytes(TYPE);

            #[link_section = ".modinfo"]
            #[used(compiler)]
            static MODINFO_DESC: [u8; DESC.len()] = $crate::kapi::module_param::bytes(DESC);
        };
    )*};
}
pub(crate) use module_params;

/// The bytes of a string of known length.
pub(crate) const fn bytes<const N: usize>(text: &str) -> [u8; N] {
    let text = text.as_bytes();
    let mut out = [0; N];
    let mut i = 0;
    while i < N {
        out[i] = text[i];
        i += 1;
    }
    out
}
