//! Ports that stay ours while nobody listens on them.
//!
//! A cluster that is stopped and started again must come back at the same address, so "bind port 0 and hope" is not
//! enough: the kernel hands such ports out again as source ports of connections. We take ports from below the usual
//! ephemeral range and hold a lock file for each, which other test processes respect and the kernel releases with us.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;

const FIRST: u32 = 20_000;
const COUNT: u32 = 10_000;

/// A loopback port reserved for this process.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Finds and reserves a port that nobody uses.
    pub(crate) fn reserve() -> io::Result<Self> {
        let user = rustix::process::getuid().as_raw();
        let locks = std::env::temp_dir().join(format!("jobferry-ports-{user}"));
        fs::create_dir_all(&locks)?;
        // Processes begin their search at different places, so that they rarely meet.
        let begin = std::process::id().wrapping_mul(37);
        for step in 0..COUNT {
            let candidate = FIRST + begin.wrapping_add(step) % COUNT;
            let number = u16::try_from(candidate).map_err(io::Error::other)?;
            let lock = File::create(locks.join(number.to_string()))?;
            if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, format!("all ports from {FIRST} on are taken ({COUNT} tried)")))
    }

    pub(crate) const fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_not_given_out_again() {
        let ports: Vec<Port> = (0..20).map(|_| Port::reserve().unwrap()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 20);
    }
}
