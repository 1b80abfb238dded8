//! How other threads reach the nodes while a clock runs them: they send a closure, and the thread
//! that has the node runs it between two events. Nothing is shared, and nothing is locked.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use thiserror::Error;
use tokio::sync::oneshot;

use crate::capture::OpenSink;
use crate::network::{LinkInfo, LinkState, NetworkError, NodeId, NodePort};
use crate::switch::{PortId, Switch};

/// The thread that ran the switches has ended, and the switches with it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the switch has stopped")]
pub struct Stopped;

/// Commands to a node between two events.
pub(crate) trait NodeControl {
    /// The node itself, if it is a switch.
    fn switch(&mut self) -> Option<&mut Switch>;
    /// Sets the state of the link in the direction in which this port sends.
    fn set_link(&mut self, port: PortId, state: LinkState) -> Result<(), NetworkError>;
    /// The state of each link of the node, in the direction in which the node sends.
    fn link_states(&self) -> Vec<LinkInfo>;
    /// Restarts a switch without a program.
    fn restart(&mut self) -> Result<(), NetworkError>;
    /// Starts a capture at a port of a switch.
    fn start_capture(&mut self, port: PortId, open: OpenSink) -> Result<(), NetworkError>;
    /// Ends the capture at a port.
    fn stop_capture(&mut self, port: PortId) -> Result<(), NetworkError>;
}

/// A request of another thread, for [`Network::obey`](crate::Network::obey).
pub struct Command(pub(crate) Request);

/// Something to do at one node.
type Work = Box<dyn FnOnce(&mut dyn NodeControl) + Send>;
/// Something to do at every node.
type WorkForAll = Box<dyn FnMut(&mut dyn NodeControl) + Send>;

/// Action of a [`Command`].
pub(crate) enum Request {
    /// Do this at one node.
    At(NodeId, Work),
    /// Do this at every node.
    Everywhere(WorkForAll),
    /// End the run.
    Stop,
}

/// Reaches the nodes of a network that a clock runs. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct ControlHandle {
    /// The ways to the threads that run nodes.
    lanes: Arc<[Lane]>,
    /// Index into `lanes` for each node; nodes beyond its end are reached by the first lane.
    lane_of: Arc<[u32]>,
}

/// Wakes a thread that sleeps until something comes. `()` wakes nobody: a simulation looks at its
/// commands whenever its clock stands still.
pub trait Wake: Debug + Send + Sync {
    /// Wakes the thread, if it sleeps.
    fn wake(&self);
}

impl Wake for () {
    fn wake(&self) {}
}

/// The way to one thread: a queue of commands, and what wakes the thread.
#[derive(Clone, Debug)]
struct Lane {
    commands: Sender<Command>,
    wake: Arc<dyn Wake>,
}

/// The receiving end, for the owner of the nodes: a thread of a driver, or a simulation between two
/// stretches of time.
pub struct ControlReceiver {
    commands: Receiver<Command>,
}

/// A handle and the receiver of a single thread that has all nodes and looks for commands itself.
pub fn control_channel() -> (ControlHandle, ControlReceiver) {
    let (lane, receiver) = lane(Arc::new(()));
    let handle = ControlHandle {
        lanes: [lane].into(),
        lane_of: [].into(),
    };
    (handle, receiver)
}

/// A handle and the receivers of several threads. `wakes` has what wakes each thread; `lane_of`
/// says for each node which of the threads has it.
pub fn control_channels(
    wakes: impl IntoIterator<Item = Arc<dyn Wake>>,
    lane_of: impl IntoIterator<Item = u32>,
) -> (ControlHandle, Vec<ControlReceiver>) {
    let (lanes, receivers): (Vec<_>, Vec<_>) = wakes.into_iter().map(lane).unzip();
    let handle = ControlHandle {
        lanes: lanes.into(),
        lane_of: lane_of.into_iter().collect(),
    };
    (handle, receivers)
}

fn lane(wake: Arc<dyn Wake>) -> (Lane, ControlReceiver) {
    let (commands, receiver) = channel();
    let receiver = ControlReceiver { commands: receiver };
    (Lane { commands, wake }, receiver)
}

impl ControlHandle {
    /// Runs a closure on a switch and awaits its result.
    pub async fn with<R: Send + 'static>(
        &self,
        switch: NodeId,
        f: impl FnOnce(&mut Switch) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        self.submit(switch, f)?.await.map_err(|_| Stopped)
    }

    /// Like [`with`](Self::with), for a thread without an async runtime.
    pub fn with_blocking<R: Send + 'static>(
        &self,
        switch: NodeId,
        f: impl FnOnce(&mut Switch) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        self.submit(switch, f)?.blocking_recv().map_err(|_| Stopped)
    }

    /// Runs a closure on a switch soon, without a result. If the run has ended, the closure is
    /// dropped.
    pub fn post(
        &self,
        switch: NodeId,
        f: impl FnOnce(&mut Switch) + Send + 'static,
    ) -> Result<(), Stopped> {
        self.post_to_node(switch, move |node| {
            if let Some(switch) = node.switch() {
                f(switch);
            }
        })
    }

    /// Sets the state of a link in the direction in which this port sends.
    pub async fn set_link(
        &self,
        from: NodePort,
        state: LinkState,
    ) -> Result<Result<(), NetworkError>, Stopped> {
        self.ask(from.node, move |node| node.set_link(from.port, state))
            .await
    }

    /// The states of all directions of all links, ordered by node and port.
    pub async fn link_states(&self) -> Result<Vec<LinkInfo>, Stopped> {
        let mut states = Vec::new();
        for lane in self.lanes.iter() {
            let (reply, mut result) = tokio::sync::mpsc::unbounded_channel();
            lane.send(Request::Everywhere(Box::new(move |node| {
                // The caller may have stopped waiting.
                let _ = reply.send(node.link_states());
            })))?;
            while let Some(some) = result.recv().await {
                states.extend(some);
            }
        }
        states.sort_by_key(|info| info.from);
        Ok(states)
    }

    /// See [`Network::restart_switch`](crate::Network::restart_switch).
    pub async fn restart_switch(
        &self,
        switch: NodeId,
    ) -> Result<Result<(), NetworkError>, Stopped> {
        self.ask(switch, |node| node.restart()).await
    }

    /// See [`Network::start_capture`](crate::Network::start_capture).
    pub async fn start_capture(
        &self,
        at: NodePort,
        open: OpenSink,
    ) -> Result<Result<(), NetworkError>, Stopped> {
        self.ask(at.node, move |node| node.start_capture(at.port, open))
            .await
    }

    /// Ends a capture; what it recorded is complete then.
    pub async fn stop_capture(&self, at: NodePort) -> Result<Result<(), NetworkError>, Stopped> {
        self.ask(at.node, move |node| node.stop_capture(at.port))
            .await
    }

    /// Ends the run, once each thread has finished what it is doing.
    pub fn stop(&self) {
        for lane in self.lanes.iter() {
            // If the thread has ended already, there is nothing to stop.
            let _ = lane.send(Request::Stop);
        }
    }

    /// Runs a closure on a node and awaits its result.
    async fn ask<R: Send + 'static>(
        &self,
        node: NodeId,
        f: impl FnOnce(&mut dyn NodeControl) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let (reply, result) = oneshot::channel();
        self.post_to_node(node, move |node| {
            // The caller may have stopped waiting.
            let _ = reply.send(f(node));
        })?;
        result.await.map_err(|_| Stopped)
    }

    /// Sends a closure to a switch; its result comes through the receiver.
    fn submit<R: Send + 'static>(
        &self,
        switch: NodeId,
        f: impl FnOnce(&mut Switch) -> R + Send + 'static,
    ) -> Result<oneshot::Receiver<R>, Stopped> {
        let (reply, result) = oneshot::channel();
        let run = move |switch: &mut Switch| {
            // The caller may have stopped waiting.
            let _ = reply.send(f(switch));
        };
        self.post(switch, run)?;
        Ok(result)
    }

    /// Sends a closure to a node.
    fn post_to_node(
        &self,
        node: NodeId,
        f: impl FnOnce(&mut dyn NodeControl) + Send + 'static,
    ) -> Result<(), Stopped> {
        let lane = self.lane_of.get(node.0).copied().unwrap_or_default();
        self.lanes[lane as usize].send(Request::At(node, Box::new(f)))
    }
}

impl Lane {
    fn send(&self, request: Request) -> Result<(), Stopped> {
        self.commands.send(Command(request)).map_err(|_| Stopped)?;
        self.wake.wake();
        Ok(())
    }
}

impl ControlReceiver {
    /// The next command that has arrived; `None` if there is none.
    pub fn next(&self) -> Option<Command> {
        self.commands.try_recv().ok()
    }

    /// Waits for the next command; `None` if nobody is left to send one.
    pub fn wait(&self) -> Option<Command> {
        self.commands.recv().ok()
    }
}
