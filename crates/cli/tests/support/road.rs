//! A road to a server that can be cut: whoever is on it is thrown off, and may come back.

use std::{
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// Passes bytes on to a server, until it is cut, and again after that.
pub(crate) struct Road {
    address: SocketAddr,
    travellers: Arc<Mutex<Vec<TcpStream>>>,
}

impl Road {
    /// A road to the server at this address.
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let travellers = Arc::<Mutex<Vec<TcpStream>>>::default();
        let known = Arc::clone(&travellers);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(upstream) = TcpStream::connect(server) else { continue };
                let copies = [(&client, &upstream), (&upstream, &client)];
                for (from, to) in copies.map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap())) {
                    thread::spawn(move || pass_on(from, to));
                }
                known.lock().unwrap().extend([client, upstream]);
            }
        });
        Self { address, travellers }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends every connection in the middle of whatever it carries.
    pub(crate) fn cut(&self) {
        for traveller in self.travellers.lock().unwrap().drain(..) {
            // One that has ended already needs no cutting.
            let _ = traveller.shutdown(Shutdown::Both);
        }
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}
