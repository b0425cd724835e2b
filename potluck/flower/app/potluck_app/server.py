"""The ServerApp: the server's half, with the loop and the methods of potluck."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the federation in the file that the run's configuration names."""
    from potluck.flower.server_app import serve

    serve(grid, context.run_config)
