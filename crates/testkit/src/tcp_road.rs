//! A road to a real cluster: a TCP proxy on loopback that can stop carrying anything, while the cluster lives on.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::fault::{Passage, Road};

/// One read of a connection.
const CHUNK: usize = 64 * 1024;

/// Listens on a port of loopback and carries every connection to `target`, as long as `road` is open. Bytes that find it
/// closed wait, as they would on the way to a frozen server. Returns the address to use instead of `target`.
pub(crate) async fn lead_to(target: String, road: Road) -> io::Result<String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(carry(client, target.clone(), road.clone()));
        }
    });
    Ok(address)
}

async fn carry(client: TcpStream, target: String, road: Road) {
    // A server that is down refuses the connection; the client sees that as a connection that ends.
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        pass(from_client, to_server, &road, |passage| passage.there),
        pass(from_server, to_client, &road, |passage| passage.back)
    );
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    road: &Road,
    open: impl Fn(Passage) -> bool,
) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(length @ 1..) = from.read(&mut chunk).await {
        road.until(&open).await;
        if to.write_all(&chunk[..length]).await.is_err() {
            return;
        }
    }
    // The other side learns that nothing more comes.
    let _ = to.shutdown().await;
}
