//! `NamedSession`: a session with a graph of its own, made of GraphDefs, and asked for tensors by name.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tfcore_base::{Result, invalid, not_found, out_of_range};
use tfcore_framework::Registry;
use tfcore_graph::{Graph, ImportOptions, NodeId, OutputRef, TensorRef};
use tfcore_proto as proto;
use tfcore_tensor::Tensor;

use crate::environment::config::SessionConfig;
use crate::session::partial::{Announcement, Named, check_names};
use crate::session::{Outcome, Request, Session};

/// What a client asks of a [`NamedSession`]: a [`Request`] with names in place of nodes.
#[derive(Default)]
pub struct NamedRequest {
    pub feeds: Vec<(String, Tensor)>,
    pub fetches: Vec<String>,
    pub targets: Vec<String>,
    /// The rest of the request; its feeds, fetches and targets are ignored.
    pub options: Request,
}

/// A session that owns its graph.
pub struct NamedSession {
    session: Session,
    graph: Mutex<Graph>,
    /// Whether there has been a GraphDef, if only an empty one.
    has_graph: AtomicBool,
}

impl NamedSession {
    /// # Errors
    /// As [`Session::new`].
    pub fn new(registry: Arc<Registry>, config: &SessionConfig) -> Result<NamedSession> {
        Ok(NamedSession {
            session: Session::new(registry.clone(), config)?,
            graph: Mutex::new(Graph::new(registry)),
            has_graph: AtomicBool::new(false),
        })
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Adds the nodes of a GraphDef, whose inputs may be nodes that are there already.
    ///
    /// # Errors
    /// As an import, and for names that are taken; the graph is then as it was.
    pub fn extend(&self, def: proto::GraphDef) -> Result<()> {
        self.session.check_open()?;
        let mut graph = self.graph.lock();
        if let Some(node) = def.node.iter().find(|node| graph.find(&node.name).is_some()) {
            return Err(invalid!(
                "GraphDef argument to Extend includes node '{}', which was created by a previous call to Create \
                 or Extend in this session.",
                node.name
            ));
        }
        let earlier = def.node.iter().flat_map(|node| &node.input).filter_map(|input| {
            let tensor = TensorRef::parse(input);
            let node = graph.find(&tensor.node)?;
            let output = match u32::try_from(tensor.index) {
                Ok(index) => OutputRef { node, index },
                Err(_) => OutputRef::control(node),
            };
            Some((tensor, output))
        });
        let options = ImportOptions {
            input_map: earlier.collect(),
            // The other nodes of a group may be there already.
            validate_colocation: false,
            ..ImportOptions::default()
        };
        graph.import(def, &options)?;
        self.has_graph.store(true, Ordering::Release);
        self.session.extend(&graph)
    }

    /// Runs what the fetches and targets need.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run(&self, request: NamedRequest) -> Result<Outcome> {
        self.check_graph("Run")?;
        let NamedRequest { feeds, fetches, targets, options } = request;
        let mut request = options;
        request.feeds.clear();
        request.values.clear();
        {
            let graph = self.graph.lock();
            let mut names: Vec<&String> = feeds.iter().map(|(name, _)| name).collect();
            let mut fetched: Vec<&String> = fetches.iter().collect();
            names.sort_unstable();
            fetched.sort_unstable();
            let output = |name: &String| tensor_of(&graph, name);
            let all = feeds.iter().map(|(name, _)| name).chain(&fetches);
            let outputs: Result<Vec<OutputRef>> = all.map(output).collect();
            // Of several that are not there the first by name is told.
            let mut outputs = outputs.map_err(|error| {
                let mut sorted = names.iter().chain(&fetched);
                sorted.find_map(|name| output(name).err()).unwrap_or(error)
            })?;
            check_names(&names, &fetched)?;
            request.fetches = outputs.split_off(feeds.len());
            // `x` and `x:0` are two names of one tensor.
            let mut known = HashSet::with_capacity(feeds.len());
            for ((_, tensor), output) in feeds.into_iter().zip(outputs) {
                if known.insert(output) {
                    request.feed(output, tensor);
                }
            }
            request.targets = targets_of(&graph, &targets)?;
        }
        self.session.run(request)
    }

    /// Begins a partial run.
    ///
    /// # Errors
    /// As [`Session::begin_partial`].
    pub fn begin_partial(
        &self,
        feeds: Vec<String>,
        fetches: Vec<String>,
        targets: Vec<String>,
    ) -> Result<String> {
        self.check_graph("PRunSetup")?;
        let announcement = {
            let graph = self.graph.lock();
            let tensor = |name: String| {
                let parsed = TensorRef::parse(&name);
                let node = graph.find(&parsed.node);
                let index = u32::try_from(parsed.index).unwrap_or(u32::MAX);
                Named { at: node.map(|node| OutputRef { node, index }), name }
            };
            let node = |name: String| Named { at: node_of(&graph, &name), name };
            Announcement {
                feeds: feeds.into_iter().map(tensor).collect(),
                fetches: fetches.into_iter().map(tensor).collect(),
                targets: targets.into_iter().map(node).collect(),
            }
        };
        self.session.begin_partial(&announcement)
    }

    fn check_graph(&self, call: &str) -> Result<()> {
        self.session.check_open()?;
        match self.has_graph.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(invalid!("Session was not created with a graph before {call}()!")),
        }
    }
}

fn node_of(graph: &Graph, name: &str) -> Option<NodeId> {
    graph.find(&TensorRef::parse(name).node)
}

fn tensor_of(graph: &Graph, name: &str) -> Result<OutputRef> {
    let TensorRef { node, index } = TensorRef::parse(name);
    let id = graph.find(&node).ok_or_else(|| {
        invalid!(
            "Tensor {node}:{index}, specified in either feed_devices or fetch_devices was not found in the Graph"
        )
    })?;
    let found = graph.node(id);
    match usize::try_from(index) {
        Ok(index) if index < found.num_outputs() => Ok(OutputRef::new(id, index)),
        _ => Err(out_of_range!(
            "Node '{node}' (type: '{}', num of outputs: {}) does not have output {index}",
            found.op.name,
            found.num_outputs()
        )),
    }
}

fn targets_of(graph: &Graph, names: &[String]) -> Result<Vec<NodeId>> {
    let mut missing: Vec<&str> = Vec::new();
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        match node_of(graph, name) {
            Some(id) => found.push(id),
            None => missing.push(name),
        }
    }
    if missing.is_empty() {
        return Ok(found);
    }
    missing.sort_unstable();
    Err(not_found!("PruneForTargets: Some target nodes not found: {} ", missing.join(" ")))
}
