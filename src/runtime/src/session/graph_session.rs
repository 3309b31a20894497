//! `GraphSession`: what clients ask of a session, so that sessions of another kind can stand beside those of this process.

use tfcore_base::Result;
use tfcore_graph::Graph;
use tfcore_tensor::Tensor;

use crate::environment::device::Device;
use crate::session::partial::Announcement;
use crate::session::{Outcome, Request, Session};

/// A session over a graph that grows, wherever the nodes run.
pub trait GraphSession: Send + Sync {
    /// As [`Session::extend`].
    fn extend(&self, graph: &Graph) -> Result<()>;

    /// As [`Session::run`].
    fn run(&self, request: Request) -> Result<Outcome>;

    /// As [`Session::begin_partial`].
    fn begin_partial(&self, announced: &Announcement) -> Result<String>;

    /// As [`Session::run_partial`].
    fn run_partial(
        &self,
        handle: &str,
        feeds: Vec<(String, Tensor)>,
        fetches: &[String],
    ) -> Result<Vec<Tensor>>;

    /// As [`Session::check_open`].
    fn check_open(&self) -> Result<()>;

    /// As [`Session::close`].
    fn close(&self);

    fn devices(&self) -> &[Device];
}

impl GraphSession for Session {
    fn extend(&self, graph: &Graph) -> Result<()> {
        Session::extend(self, graph)
    }

    fn run(&self, request: Request) -> Result<Outcome> {
        Session::run(self, request)
    }

    fn begin_partial(&self, announced: &Announcement) -> Result<String> {
        Session::begin_partial(self, announced)
    }

    fn run_partial(
        &self,
        handle: &str,
        feeds: Vec<(String, Tensor)>,
        fetches: &[String],
    ) -> Result<Vec<Tensor>> {
        Session::run_partial(self, handle, feeds, fetches)
    }

    fn check_open(&self) -> Result<()> {
        Session::check_open(self)
    }

    fn close(&self) {
        Session::close(self);
    }

    fn devices(&self) -> &[Device] {
        Session::devices(self)
    }
}
