// SPDX-License-Identifier: GPL-2.0

//! The kernel's uevents of loop disks and their partitions.

use crate::kapi::{self, Result};
use std::os::fd::OwnedFd;

/// Hears events from its creation on.
pub struct Monitor {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Monitor {
    pub fn new() -> Result<Self> {
        Ok(Self {
            socket: kapi::uevent_socket()?,
            buffer: vec![0; 16 << 10],
        })
    }

    /// The events since the last call. The kernel hands them over before the system call that
    /// causes them returns.
    pub fn events(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        loop {
            match kapi::receive(&self.socket, &mut self.buffer) {
                Ok(len) => events.extend(describe(&self.buffer[..len])),
                Err(errno) if errno.0 == libc::EAGAIN => return events,
                Err(errno) => events.push(format!("lost({errno})")),
            }
        }
    }
}

/// One event, if it is about a loop disk: action, name, and what else it says, but for what differs
/// from boot to boot.
fn describe(datagram: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(datagram);
    let pairs: Vec<(&str, &str)> = text
        .split('\0')
        .filter_map(|word| word.split_once('='))
        .collect();
    let get = |key: &str| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
    let name = get("DEVNAME")?;
    if get("SUBSYSTEM") != Some("block") || !name.starts_with("loop") {
        return None;
    }
    let pooled = get("DEVTYPE") == Some("partition") && get("MAJOR") != Some("7");
    let mut event = format!("{}:{name}", get("ACTION")?);
    for (key, value) in &pairs {
        match *key {
            "ACTION" | "DEVNAME" | "SUBSYSTEM" | "SEQNUM" | "DISKSEQ" => {}
            // Numbers from a pool that all disks share.
            "MAJOR" | "MINOR" if pooled => {}
            // The last word is the name.
            "DEVPATH" => event.push_str(&format!(
                ",{}",
                value
                    .strip_prefix("/devices/virtual/block/")
                    .unwrap_or(value)
            )),
            _ => event.push_str(&format!(",{key}={value}")),
        }
    }
    Some(event)
}
