//! Which hosts are this machine.

use std::net::IpAddr;

/// Whether a connection to a host of a URL stays on this machine, so that it needs no encryption.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}
