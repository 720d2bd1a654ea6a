//! Which addresses may be called. An address is checked when its name is resolved, and the connection uses the checked
//! address: a name that resolves differently the second time (DNS rebinding) gains nothing.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Whether an address is public: not this machine, a private network, or an address that is translated to one.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        // This network, this machine, multicast, and what is reserved.
        (0 | 127 | 224..=255, ..)
            // Private networks, and those of carriers.
            | (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _)
            // Link local, where clouds keep their metadata.
            | (169, 254, _)
            // Protocol assignments, documentation, 6to4 relays, benchmarks.
            | (192, 0, 0 | 2) | (192, 88, 99) | (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    let [a, b, ..] = address.segments();
    // Global unicast is 2000::/3; of that, not protocol assignments and Teredo, documentation, and 6to4.
    (0x2000..0x4000).contains(&a)
        && !matches!((a, b), (0x2001, 0..=0x1ff) | (0x2001, 0xdb8) | (0x2002, _) | (0x3fff, 0..=0xfff))
}

/// How the addresses of a name are found.
pub(super) type Lookup =
    Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>> + Send + Sync>;

/// Looks names up, and leaves out what may not be called.
pub(super) struct Resolver {
    allow_hosts: Vec<String>,
    lookup: Lookup,
}

impl Resolver {
    pub(super) fn new(allow_hosts: Vec<String>) -> Self {
        let lookup: Lookup = Arc::new(|name: String| {
            Box::pin(async move { Ok(tokio::net::lookup_host((name.as_str(), 0)).await?.collect()) })
        });
        Self { allow_hosts, lookup }
    }

    #[cfg(test)]
    pub(super) fn look_up(self, lookup: Lookup) -> Self {
        Self { lookup, ..self }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.allow_hosts.iter().any(|host| host == name.as_str());
        let found = (self.lookup)(name.as_str().to_owned());
        Box::pin(async move {
            let mut found = found.await?;
            found.retain(|address| allowed || is_public(address.ip()));
            if found.is_empty() {
                return Err("the host has no address that may be called: private ones are not allowed".into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S18
    #[test]
    fn only_public_addresses_are_public() {
        for private in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "192.168.255.255",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(private.parse().expect("an address")), "{private}");
        }
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.1.0.1",
            "198.17.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "2606:4700:4700::1111",
            "2a00:1450:4001:81b::200e",
            "2001:4860:4860::8888",
        ] {
            assert!(is_public(public.parse().expect("an address")), "{public}");
        }
    }
}
