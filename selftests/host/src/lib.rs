// SPDX-License-Identifier: GPL-2.0

//! Tests of the driver's pure modules, on the host.
//!
//! The modules are those of the kernel module, included from where they are. Each has its tests in
//! the file of its name here, written against what the in-tree driver does and what the module's
//! documentation promises, not against its code.
//!
//! `cargo test` runs them. With Debian's `librust-proptest-dev` and no network:
//!
//! ```sh
//! cargo test --offline --config 'source.crates-io.replace-with="deb"' \
//!     --config 'source.deb.directory="/usr/share/cargo/registry"'
//! ```

#![cfg_attr(not(test), no_std)]
#![cfg_attr(
    not(test),
    expect(dead_code, reason = "here only the tests use the modules")
)]

#[path = "../../../geometry.rs"]
mod geometry;
#[path = "../../../histogram.rs"]
mod histogram;
#[path = "../../../loop_info.rs"]
mod loop_info;
#[path = "../../../params.rs"]
mod params;
#[path = "../../../policy.rs"]
mod policy;

#[cfg(test)]
mod test_geometry;
#[cfg(test)]
mod test_histogram;
#[cfg(test)]
mod test_loop_info;
#[cfg(test)]
mod test_params;
#[cfg(test)]
mod test_policy;
