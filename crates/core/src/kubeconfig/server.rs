//! Which servers are dialled on behalf of a kubeconfig.

use std::net::{Ipv4Addr, Ipv6Addr};

const UNPLAIN: &str = "write https://host:port, and a plain path if there must be one";
const LINK_LOCAL: &str = "link-local addresses are not dialled";

/// `https://host:port/path` and nothing cleverer: what we dial must be what a reader of the Secret sees.
pub(super) fn is_plain(server: &str) -> Result<(), &'static str> {
    let rest = server.strip_prefix("https://").ok_or("only https servers are dialled")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if rest.contains('@') {
        return Err("it holds a name or password; give a token or a client certificate");
    }
    if !plain(path, ".-_/:~") || path.contains("..") {
        return Err(UNPLAIN);
    }
    if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or(UNPLAIN)?;
        is_port(port)?;
        is_fit_v6(address.parse().map_err(|_| UNPLAIN)?)
    } else {
        let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
        is_port(port)?;
        is_fit_name(host)
    }
}

fn plain(text: &str, more: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
}

/// Nothing, or a colon and a number.
fn is_port(port: &str) -> Result<(), &'static str> {
    let number = |digits: &str| digits.parse::<u16>().is_ok() && plain(digits, "");
    if port.is_empty() || port.strip_prefix(':').is_some_and(number) { Ok(()) } else { Err(UNPLAIN) }
}

fn is_fit_name(host: &str) -> Result<(), &'static str> {
    if host.is_empty() || !plain(host, ".-") {
        return Err(UNPLAIN);
    }
    let Some(address) = as_resolved(host) else { return Ok(()) };
    is_fit_v4(address)?;
    if host.parse() == Ok(address) { Ok(()) } else { Err(UNPLAIN) }
}

/// No API server lives there, but the metadata services of clouds do.
const fn is_fit_v4(address: Ipv4Addr) -> Result<(), &'static str> {
    if address.is_link_local() { Err(LINK_LOCAL) } else { Ok(()) }
}

fn is_fit_v6(address: Ipv6Addr) -> Result<(), &'static str> {
    if address.is_unicast_link_local() {
        return Err(LINK_LOCAL);
    }
    // Addresses of IPv4 in the clothes of IPv6: mapped, compatible, and what NAT64 translates.
    let translated = match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))),
        _ => None,
    };
    address.to_ipv4().or(translated).map_or(Ok(()), is_fit_v4)
}

/// The address that resolvers take a name for that is none: since the days of `inet_aton` it may have fewer than four
/// numbers, of which the last one fills the rest, each of them decimal, octal or hexadecimal.
fn as_resolved(host: &str) -> Option<Ipv4Addr> {
    let numbers = host.strip_suffix('.').unwrap_or(host).split('.').map(number).collect::<Option<Vec<u32>>>()?;
    let (last, first) = numbers.split_last()?;
    if first.len() > 3 {
        return None;
    }
    let room = 8 * (4 - u32::try_from(first.len()).ok()?);
    let high =
        first.iter().try_fold(0_u64, |high, number| (*number < 256).then_some(high << 8 | u64::from(*number)))?;
    let fits = u64::from(*last) < 1 << room;
    fits.then_some(high << room | u64::from(*last)).and_then(|bits| u32::try_from(bits).ok()).map(Ipv4Addr::from_bits)
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_a_port_and_perhaps_a_path() {
        for server in [
            "https://eu-1:6443",
            "https://10.0.0.1",
            "https://10.0.0.1:6443",
            "https://[fd00::1]:6443",
            "https://[::ffff:10.0.0.1]",
            "https://proxy/k8s/c-1",
            "https://169.254.example.com",
            "https://0xabc.example.com:443",
        ] {
            assert_eq!(is_plain(server), Ok(()), "{server}");
        }
        for (server, why) in [
            ("http://eu-1", "only https"),
            ("HTTPS://eu-1", "only https"),
            ("https://", UNPLAIN),
            ("https://eu 1", UNPLAIN),
            ("https://eu-1:", UNPLAIN),
            ("https://eu-1:+1", UNPLAIN),
            ("https://eu-1:6443:1", UNPLAIN),
            ("https://fd00::1", UNPLAIN),
            ("https://[fd00::1", UNPLAIN),
            ("https://[fd00::1]eu-1", UNPLAIN),
            ("https://[eu-1]", UNPLAIN),
            ("https://eu-1/../admin", UNPLAIN),
            ("https://eu-1/?as=root", UNPLAIN),
            ("https://eu-1/#fragment", UNPLAIN),
            ("https://admin:secret@eu-1", "name or password"),
            ("https://eu-1:6443@evil", "name or password"),
        ] {
            let refused = is_plain(server).unwrap_err();
            assert!(refused.contains(why), "{server}: {refused}");
        }
    }

    #[test]
    fn link_local_addresses_are_known_in_every_spelling() {
        for host in [
            "169.254.169.254",
            "169.254.169.254.",
            "169.254.169.254:443",
            "2852039166",
            "0xa9fea9fe",
            "0XA9FEA9FE",
            "025177524776",
            "0251.0376.0251.0376",
            "0xa9.0xfe.0xa9.0xfe",
            "169.254.43518",
            "169.16689662",
            "169.0xfe.43518:80",
            "[fe80::1]",
            "[FE90::1]:6443",
            "[febf:ffff::1]",
            "[::ffff:169.254.169.254]",
            "[::ffff:a9fe:a9fe]",
            "[0:0:0:0:0:ffff:a9fe:a9fe]",
            "[::169.254.169.254]",
            "[64:ff9b::a9fe:a9fe]",
        ] {
            assert_eq!(is_plain(&format!("https://{host}")), Err(LINK_LOCAL), "{host}");
        }
    }

    #[test]
    fn an_address_that_does_not_look_like_one_is_not_dialled_wherever_it_leads() {
        for host in ["167772161", "0x0a000001", "10.1", "010.0.0.1", "10.0.0.1."] {
            assert_eq!(is_plain(&format!("https://{host}")), Err(UNPLAIN), "{host}");
        }
    }
}
