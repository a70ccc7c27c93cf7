//! The requests that functions of rules are answering.

use crate::emitter::Emitter;
use crate::socket::Socket;
use crate::types::NativeEvent;
use nacre_containment::lock::Lock;
use nacre_core::functions::{FunctionCall, OnFunction};
use nacre_egress::{Forwarder, Purpose};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The requests that functions are answering.
#[derive(Clone, Default)]
pub struct Requests(Arc<Lock<RequestTable>>);

#[derive(Default)]
struct RequestTable {
    last: u32,
    forwarders: HashMap<u32, Weak<Forwarder>>,
}

impl Requests {
    /// Sends each call to JavaScript.
    pub fn receive(&self, emitter: Arc<Emitter>) -> OnFunction {
        let requests = self.clone();
        OnFunction::new(move |FunctionCall { session, call, socket }| {
            let (request, placeholder) = match call.purpose {
                Purpose::Answer(forwarder) => (requests.add(&forwarder), None),
                Purpose::Know { placeholder } => (0, Some(placeholder)),
            };
            let (session_id, name, socket) = (session, call.function, Socket(socket));
            emitter.emit(NativeEvent::Function { session_id, name, request, placeholder, socket });
        })
    }

    fn add(&self, forwarder: &Arc<Forwarder>) -> u32 {
        let mut table = self.0.lock();
        table.forwarders.retain(|_, forwarder| forwarder.strong_count() > 0);
        table.last = table.last.wrapping_add(1);
        let number = table.last;
        table.forwarders.insert(number, Arc::downgrade(forwarder));
        number
    }

    /// What sends requests on for one that goes on.
    pub fn find(&self, request: u32) -> Option<Arc<Forwarder>> {
        self.0.lock().forwarders.get(&request)?.upgrade()
    }
}
