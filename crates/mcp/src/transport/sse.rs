//! HTTP with server-sent events, as used until 2024: one stream carries all incoming messages, and
//! its first event names the address to post to. That address must have the origin of the stream,
//! or a server could send our token elsewhere.

use super::stream::events;
use super::{Ending, FarEnd, Link, SendError, link};
use crate::auth::Access;
use crate::limits::{AUTH_BYTES, MESSAGE_BYTES};
use crate::log::ServerLog;
use crate::net;
use crate::transport::websocket::Refused;
use futures::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE};
use reqwest::{RequestBuilder, Response, StatusCode};
use url::Url;

#[derive(Clone)]
struct Requests {
    client: reqwest::Client,
    headers: HeaderMap,
    access: Access,
}

impl Requests {
    async fn exchange(&self, make: impl Fn() -> RequestBuilder) -> Result<Response, Refused> {
        let token = self.access.bearer().await;
        let send = |token: Option<&str>| {
            let mut request = make().headers(self.headers.clone());
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            request.send()
        };
        let failed = |error: reqwest::Error| Refused::Failed(net::innermost(&error));
        let mut response = send(token.as_deref()).await.map_err(failed)?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(token) = token
            && let Some(fresh) = self.access.refused(&token).await
        {
            response = send(Some(&fresh)).await.map_err(failed)?;
        }
        let challenge = response.headers().get(WWW_AUTHENTICATE);
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Refused::Unauthorised(
                challenge
                    .and_then(|value| value.to_str().ok())
                    .unwrap_or_default()
                    .to_owned(),
            )),
            status => Err(Refused::Failed(format!("HTTP {status}"))),
        }
    }
}

/// Opens the stream and waits for the address to post to.
pub(crate) async fn connect(
    client: reqwest::Client,
    url: &Url,
    headers: HeaderMap,
    access: Access,
    log: &ServerLog,
    ending: &Ending,
) -> Result<Link, Refused> {
    let requests = Requests {
        client,
        headers,
        access,
    };
    let response = requests
        .exchange(|| {
            requests
                .client
                .get(url.clone())
                .header(ACCEPT, "text/event-stream")
        })
        .await?;
    let mut stream = events(response, MESSAGE_BYTES);
    let endpoint = loop {
        match stream.next().await {
            Some(Ok(event)) if event.event.as_deref() == Some("endpoint") => {
                break event.data.unwrap_or_default();
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(Refused::Failed(error.to_string())),
            None => {
                return Err(Refused::Failed(
                    "the stream ended before it named an address to post to".to_owned(),
                ));
            }
        }
    };
    let post_to = url
        .join(endpoint.trim())
        .map_err(|error| Refused::Failed(format!("the address to post to is invalid: {error}")))?;
    if post_to.origin() != url.origin() {
        return Err(Refused::Failed(
            "the server names an address of another origin to post to; refused".to_owned(),
        ));
    }
    let (near, far) = link(log.clone(), ending.clone());
    let FarEnd {
        mut outgoing,
        incoming,
        ending,
    } = far;
    let reading = {
        let ending = ending.clone();
        lathe_spawn::task(async move {
            while let Some(event) = stream.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        ending.because(error.to_string());
                        return;
                    }
                };
                if event.event.as_deref().is_none_or(|name| name == "message")
                    && !incoming
                        .text(event.data.unwrap_or_default().as_bytes())
                        .await
                {
                    return;
                }
            }
            ending.because("the server has closed the stream");
        })
    };
    lathe_spawn::task(async move {
        while let Some(message) = outgoing.recv().await {
            // Posts run concurrently: one may wait for the answer to another.
            let requests = requests.clone();
            let post_to = post_to.clone();
            lathe_spawn::task(async move {
                let posted = requests
                    .exchange(|| {
                        requests
                            .client
                            .post(post_to.clone())
                            .header(CONTENT_TYPE, "application/json")
                            .body(message.text.clone())
                    })
                    .await;
                let sent = match posted {
                    Ok(response) => match net::body(response, AUTH_BYTES).await {
                        Ok(_) => Ok(()),
                        Err(error) => Err(SendError(error.to_string())),
                    },
                    Err(refused) => Err(SendError(refused.to_string())),
                };
                let _ = message.sent.send(sent);
            });
        }
        reading.abort();
        ending.is_gone();
    });
    Ok(near)
}
