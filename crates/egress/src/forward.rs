//! Requests of functions, which are sent to the host as those of clients are.

use super::exchange::Exchange;
use super::function::{Frames, Kept, RequestHead, unlisted};
use super::origin::{Linked, connect_plain};
use super::{Body, Egress, Origin};
use http_body_util::BodyExt;
use hyper::{Method, Request, Response, Uri};
use std::sync::Arc;
use tokio::net::unix::OwnedReadHalf;

impl Egress {
    /// The reply to a request whose body is still to be read.
    pub(crate) async fn reply(
        self: Arc<Self>,
        head: RequestHead,
        reader: OwnedReadHalf,
        origin: Origin,
        scheme: &'static str,
    ) -> Result<Response<Body>, String> {
        let bad = |_| "the request has a method, a URL or a header that cannot be sent".to_owned();
        let uri: Uri = head.url.parse().map_err(|_| bad(()))?;
        let port = uri.port_u16().unwrap_or(super::default_port(scheme));
        if uri.scheme_str() != Some(scheme) || uri.host() != Some(&origin.host) || port != origin.port {
            return Err(format!("forward sends requests to {scheme}://{origin} alone"));
        }
        let mut frames = Frames::new(reader, None);
        frames.begin().await.map_err(|error| error.to_string())?;
        let mut request = Request::new(frames.boxed());
        *request.method_mut() = Method::from_bytes(head.method.as_bytes()).map_err(|_| bad(()))?;
        *request.headers_mut() = unlisted(head.headers).map_err(|_| bad(()))?;
        request.headers_mut().remove(hyper::header::HOST);
        *request.uri_mut() = uri;
        let dial = self.observer.dial(&origin);
        let Linked { link, task, .. } = if scheme == "https" {
            Arc::clone(&self.origins).connect(&origin.host, vec![b"http/1.1".to_vec()], dial).await
        } else {
            connect_plain(&origin.host, dial).await
        };
        let treatment = self.of(&origin).map_err(|error| error.to_string())?;
        let exchange = Exchange::new(Arc::clone(&self), treatment, origin, scheme, link);
        let reply = Arc::new(exchange).handle(request).await.map_err(|error| error.to_string())?;
        // The connection lasts as long as the body.
        Ok(reply.map(|body| Kept::new(body, task).boxed()))
    }
}
