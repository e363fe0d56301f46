"""What a person sees: the page to try the model on, and the API's documentation. Nothing comes from elsewhere."""

from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles
from swagger_ui_bundle import swagger_ui_path

from serving.edge import service_root

PAGE = Path(__file__).parent / "page"


def add(app: FastAPI) -> None:
    """Add `GET /`, `GET /docs` and the files they need. All links are relative: any prefix and any proxy will do."""
    html = (PAGE / "index.html").read_text(encoding="utf-8")

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> HTMLResponse:
        return HTMLResponse(html.replace("{root}", service_root(request.scope)))

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        root = service_root(request.scope)
        return get_swagger_ui_html(
            openapi_url=f"{root}openapi.json",
            title=f"{app.title} {app.version}",
            swagger_js_url=f"{root}swagger/swagger-ui-bundle.js",
            swagger_css_url=f"{root}swagger/swagger-ui.css",
            swagger_favicon_url=f"{root}swagger/favicon-32x32.png",
        )

    app.mount("/page", StaticFiles(directory=PAGE))
    app.mount("/swagger", StaticFiles(directory=swagger_ui_path))
