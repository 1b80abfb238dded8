//! The gRPC service, which checks the places and values of requests.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::{Fabric, Layout, LinkEnd, Node, captures};
use crate::proto::fabric as proto;
use crate::proto::fabric::LinkState;
use crate::proto::fabric::fabric_server::Fabric as Rpc;
use crate::served_device::ServedDevice;

pub struct Service {
    fabric: Arc<dyn Fabric>,
    /// P4Runtime's side of each switch, in the order of the layout.
    served: Vec<Arc<ServedDevice>>,
    /// Held while a state is read and written back.
    changing: tokio::sync::Mutex<()>,
    /// Held while a capture begins or ends.
    captures: tokio::sync::Mutex<captures::Running>,
}

impl Service {
    pub fn new(fabric: Arc<dyn Fabric>, served: Vec<Arc<ServedDevice>>) -> Self {
        Self {
            fabric,
            served,
            changing: tokio::sync::Mutex::default(),
            captures: tokio::sync::Mutex::default(),
        }
    }
}

#[tonic::async_trait]
impl Rpc for Service {
    async fn get_fabric(
        &self,
        _: Request<proto::GetFabricRequest>,
    ) -> Result<Response<proto::GetFabricResponse>, Status> {
        let layout = self.fabric.layout();
        let states = self.fabric.link_states().await?;
        let switches = layout.switches.iter().map(|s| proto::Switch {
            name: s.name.clone(),
            device_id: s.device_id,
            grpc_address: s.grpc_address.to_string(),
        });
        let links = layout.links.iter().zip(states);
        Ok(Response::new(proto::GetFabricResponse {
            switches: switches.collect(),
            hosts: layout.hosts.clone(),
            links: links
                .map(|(ends, states)| link(layout, *ends, states))
                .collect(),
        }))
    }

    async fn set_link(
        &self,
        request: Request<proto::SetLinkRequest>,
    ) -> Result<Response<proto::SetLinkResponse>, Status> {
        let request = request.into_inner();
        let layout = self.fabric.layout();
        let (index, reversed) = layout.link(&request.a, &request.b)?;
        check_values(&request)?;
        let _changing = self.changing.lock().await;
        let states = self.fabric.link_states().await?;
        let mut states = *states
            .get(index)
            .ok_or_else(|| Status::internal("there are fewer link states than links"))?;
        let forth = usize::from(reversed);
        change(&mut states[forth], &request);
        if !request.one_way {
            change(&mut states[1 - forth], &request);
        }
        self.fabric.set_link(index, states).await?;
        let mut ends = layout.links[index];
        if reversed {
            ends.reverse();
            states.reverse();
        }
        Ok(Response::new(proto::SetLinkResponse {
            link: Some(link(layout, ends, states)),
        }))
    }

    async fn restart_switch(
        &self,
        request: Request<proto::RestartSwitchRequest>,
    ) -> Result<Response<proto::RestartSwitchResponse>, Status> {
        let switch = self.fabric.layout().switch(&request.into_inner().name)?;
        let served = self
            .served
            .get(switch)
            .ok_or_else(|| Status::internal("the switch has no P4Runtime server"))?;
        served.restart(self.fabric.restart_switch(switch)).await?;
        Ok(Response::new(proto::RestartSwitchResponse {}))
    }

    async fn start_capture(
        &self,
        request: Request<proto::StartCaptureRequest>,
    ) -> Result<Response<proto::StartCaptureResponse>, Status> {
        let request = request.into_inner();
        let layout = self.fabric.layout();
        let (switch, port) = layout.switch_port(&request.at, &request.toward)?;
        let stem = captures::stem(self.fabric.captures(), &request.name)?;
        let [in_file, out_file] = captures::files(&stem);
        let mut running = self.captures.lock().await;
        if let Some((other, port)) = running.writer_of(&stem, (switch, port)) {
            let node = Node::Switch(other);
            let other = layout.end_name(LinkEnd { node, port });
            return Err(Status::failed_precondition(format!(
                "a capture at {other} writes files of this name; stop it, or choose another name"
            )));
        }
        self.fabric
            .start_capture(switch, port, stem.clone())
            .await?;
        running.begins((switch, port), stem);
        Ok(Response::new(proto::StartCaptureResponse {
            in_file,
            out_file,
        }))
    }

    async fn stop_capture(
        &self,
        request: Request<proto::StopCaptureRequest>,
    ) -> Result<Response<proto::StopCaptureResponse>, Status> {
        let request = request.into_inner();
        let layout = self.fabric.layout();
        let (switch, port) = layout.switch_port(&request.at, &request.toward)?;
        let mut running = self.captures.lock().await;
        // One that there is not has ended by itself.
        running.ends((switch, port));
        self.fabric.stop_capture(switch, port).await?;
        Ok(Response::new(proto::StopCaptureResponse {}))
    }
}

fn check_values(request: &proto::SetLinkRequest) -> Result<(), Status> {
    for (name, share) in [("loss", request.loss), ("corrupt", request.corrupt)] {
        // Also false for NaN.
        if !share.is_none_or(|share| (0.0..=1.0).contains(&share)) {
            let share = share.unwrap_or_default();
            return Err(Status::out_of_range(format!(
                "{name} {share}; allowed: 0 to 1, the share of the frames"
            )));
        }
    }
    Ok(())
}

/// Values that the request does not mention stay.
fn change(state: &mut LinkState, request: &proto::SetLinkRequest) {
    state.up = request.up.unwrap_or(state.up);
    state.loss = request.loss.unwrap_or(state.loss);
    state.corrupt = request.corrupt.unwrap_or(state.corrupt);
    state.rate_bps = match request.rate_bps {
        None => state.rate_bps,
        Some(0) => None,
        some => some,
    };
}

fn link(layout: &Layout, [a, b]: [LinkEnd; 2], [a_to_b, b_to_a]: [LinkState; 2]) -> proto::Link {
    let end = |end: LinkEnd| proto::End {
        node: layout.node_name(end.node).to_owned(),
        port: match end.node {
            Node::Switch(_) => end.port.into(),
            Node::Host(_) => 0,
        },
    };
    proto::Link {
        a: Some(end(a)),
        b: Some(end(b)),
        a_to_b: Some(a_to_b),
        b_to_a: Some(b_to_a),
    }
}
